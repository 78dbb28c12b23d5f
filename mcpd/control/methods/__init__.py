"""The control methods, one module per noun. They translate: params in, one call, result out."""
