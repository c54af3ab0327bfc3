import { describeSample } from '../samples.ts';

describeSample({
  app: 'php',
  says: /-----> PHP app detected[^]*composer\.json asks for \^8\.2: PHP 8\.4\.\d+[^]*Installing example\/greeting/,
  answers: /^Hello from PHP 8\.4, \/\n/,
  runtimes: 1,
  stops: 0,
});
