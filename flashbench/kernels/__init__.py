"""The extension's attention as functions of torch tensors, with gradients."""
