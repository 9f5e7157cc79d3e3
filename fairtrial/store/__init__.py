"""The record: tables in a database, large things in an object store. One file a noun, one function a query."""
