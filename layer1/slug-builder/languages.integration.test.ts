/** Languages that are part of the slug. */
import { describeSamples } from './samples.ts';

describeSamples([
  {
    app: 'python',
    says: /-----> Python app detected[^]*\.python-version says 3\.13: python 3\.13\.\d+[^]*Successfully installed greeting-1\.0/,
    saves: /Restoring the virtual environment/,
    answers: /^Hello from Python 3\.13, SQLite 3\./,
    runtimes: 1,
    stops: 0,
  },
  {
    app: 'ruby',
    says: /-----> Ruby app detected[^]*\.ruby-version says 3\.3: Ruby 3\.3\.\d+[^]*Bundle complete!/,
    answers: /^Hello from Ruby 3\.3\.\d+, production/,
    runtimes: 1,
    stops: 0,
  },
  {
    app: 'php',
    says: /-----> PHP app detected[^]*composer\.json asks for \^8\.2: PHP 8\.4\.\d+[^]*Installing example\/greeting/,
    answers: /^Hello from PHP 8\.4, \/\n/,
    runtimes: 1,
    stops: 0,
  },
]);
