"""Search strategies, one a module, each under the name that `qconv-tune tune --strategy` takes."""
