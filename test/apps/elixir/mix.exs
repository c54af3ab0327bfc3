defmodule Hello.MixProject do
  use Mix.Project

  def project do
    [
      app: :hello,
      version: "0.1.0",
      elixir: "~> 1.18",
      start_permanent: Mix.env() == :prod,
      deps: [],
      releases: [hello: []]
    ]
  end

  def application do
    [mod: {Hello.Application, []}, extra_applications: [:logger, :crypto, :ssl, :inets]]
  end
end
