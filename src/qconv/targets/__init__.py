"""GPUs as generated code sees them: instructions, generations and targets."""
