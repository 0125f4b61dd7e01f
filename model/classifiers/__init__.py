"""Labels from features: fitted classifiers, fine-tuned heads, where they lie."""
