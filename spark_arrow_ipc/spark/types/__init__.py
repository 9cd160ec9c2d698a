"""Arrow types to Spark types and back."""
