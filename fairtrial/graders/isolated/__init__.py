"""Programs that the user's own interpreter runs as files.

Such a program finds this folder first when it imports, so no file here may bear the name of a module it uses.
"""
