import Config

config :hello, made_in: config_env()
