"""Labels from features: fitted classifiers, fine-tuned heads, and the folders that hold them."""
