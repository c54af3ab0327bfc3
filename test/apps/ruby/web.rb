require 'bundler/setup'
require 'digest'
require 'greeting'
require 'json'
require 'openssl'
require 'psych'
require 'socket'

$stdout.sync = true
trap('TERM') { exit }
server = TCPServer.new('0.0.0.0', Integer(ENV.fetch('PORT')))
loop do
  client = server.accept
  nil until ['', nil].include?(client.gets&.chomp)
  body = "#{Greeting.hello} from Ruby #{RUBY_VERSION}, #{ENV.fetch('RACK_ENV')}\n"
  client.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\nConnection: close\r\n\r\n#{body}")
  client.close
end
