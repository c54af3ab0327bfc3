import { describeSample } from '../samples.ts';

describeSample({
  app: 'java-jar',
  says: /-----> Java app detected[^]*system\.properties says 21: Java 21/,
  answers: /^Hello from Java 21/,
  runtimes: 1,
});
