/** What is built, or needs no building. */
import { describeSamples } from './samples.ts';

describeSamples([
  {
    app: 'go',
    says: /-----> Go app detected[^]*go\.mod says 1\.22: Go 1\.\d+/,
    answers: /^Hello from go1\./,
    runtimes: 0,
  },
  {
    app: 'java-jar',
    says: /-----> Java app detected[^]*system\.properties says 21: Java 21/,
    answers: /^Hello from Java 21/,
    runtimes: 1,
  },
  { app: 'procfile', says: /-----> Procfile app detected/, answers: /^Hello from a script/, runtimes: 0, stops: 0 },
]);
