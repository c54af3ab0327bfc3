defmodule Hello.Web do
  @moduledoc "Answers each request with a line, on the port in PORT."

  def listen do
    port = String.to_integer(System.get_env("PORT") || "4000")
    {:ok, socket} = :gen_tcp.listen(port, [:binary, packet: :http_bin, active: false, reuseaddr: true])
    accept(socket)
  end

  defp accept(socket) do
    {:ok, client} = :gen_tcp.accept(socket)
    if asked?(client), do: answer(client)
    :gen_tcp.close(client)
    accept(socket)
  end

  # Who only looks whether somebody listens says nothing and leaves.
  defp asked?(client) do
    case :gen_tcp.recv(client, 0, 5_000) do
      {:ok, :http_eoh} -> true
      {:ok, _line} -> asked?(client)
      {:error, _reason} -> false
    end
  end

  defp answer(client) do
    body = "Hello from Elixir #{System.version()} (#{Application.get_env(:hello, :made_in)})\n"
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: #{byte_size(body)}\r\nconnection: close\r\n\r\n"
    :gen_tcp.send(client, head <> body)
  end
end
