module Greeting
  def self.hello = 'Hello'
end
