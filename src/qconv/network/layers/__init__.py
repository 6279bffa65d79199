"""The layers that run on kernels, one kind per module, and the folds that join them."""
