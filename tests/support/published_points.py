"""The speeds of the published scaling figure."""

POINTS = {  # read off the figure; kept here once more, so that the program's cannot drift
    "ethernet_4096": [7.7, 11.7, 23.5, 45.9, 92.6],
    "infiniband_4096": [7.7, 13.4, 27.4, 55.4, 109.1],
    "infiniband_8192": [7.9, 15.65, 31.3, 61.3, 120.9],
}
