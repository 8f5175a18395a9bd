"""The interceptors that come with penstock: plugins like anybody's, on `penstock.api` alone."""
