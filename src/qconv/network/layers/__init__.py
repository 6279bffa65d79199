"""The layers that run on kernels, one kind a module, and the folds that join them."""
