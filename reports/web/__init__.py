"""Makes one HTML file of recorded runs, and the pictures of the README, from the pages and their charts."""
