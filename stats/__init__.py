"""The statistics: arrays in, small frozen results out; numpy and scipy only."""
