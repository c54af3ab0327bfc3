import { describeSample } from '../samples.ts';

describeSample({
  app: 'java-jar',
  says: /-----> Java app detected[^]*system\.properties says 21: Java 21/,
  answers: /^Hello from Java 21/,
  runtimes: 1,
});

describeSample({
  app: 'gradle',
  says: /-----> Gradle app detected[^]*build\.gradle says 21: Java 21[^]*-----> Building with \.\/gradlew installDist\n {7}Fetching Gradle[^]*types for Gradle -> web/,
  saves: /Gradle is here already/,
  answers: /^Hello from Gradle and Java 21/,
  runtimes: 1,
});
