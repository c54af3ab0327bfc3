defmodule Hello.Application do
  use Application

  @impl true
  def start(_type, _args) do
    Supervisor.start_link([{Task, &Hello.Web.listen/0}], strategy: :one_for_one, name: Hello.Supervisor)
  end
end
