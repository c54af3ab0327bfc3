import { describeSample } from '../samples.ts';

describeSample({
  app: 'ruby',
  says: /-----> Ruby app detected[^]*\.ruby-version says 3\.3: Ruby 3\.3\.\d+[^]*Bundle complete!/,
  answers: /^Hello from Ruby 3\.3\.\d+, production/,
  runtimes: 1,
  stops: 0,
});
