"""One file a flow, and the long-lived local server they run on."""
