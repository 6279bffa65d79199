"""GPUs as generated code sees them: instructions, generations, targets."""
