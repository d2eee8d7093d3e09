"""Model classes of the ready factories in models.py; imports no other room."""
