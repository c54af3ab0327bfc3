import { describeSample } from './samples.ts';

describeSample({
  app: 'procfile',
  says: /-----> Procfile app detected/,
  answers: /^Hello from a script/,
  runtimes: 0,
  stops: 0,
});
