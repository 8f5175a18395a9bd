"""The interceptors that come with penstock: ordinary plugins, which use only `penstock.api`."""
