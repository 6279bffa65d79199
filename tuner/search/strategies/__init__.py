"""Search strategies, one per module. `qconv-tune tune --strategy` takes the module's name."""
