Gem::Specification.new do |gem|
  gem.name = 'greeting'
  gem.version = '1.0'
  gem.summary = 'Says hello'
  gem.authors = ['A Person']
  gem.files = ['lib/greeting.rb']
end
