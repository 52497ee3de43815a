"""What can be typed after each verb; imports no data library, so that help answers at once."""
