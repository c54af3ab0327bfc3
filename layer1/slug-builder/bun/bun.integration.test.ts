import { describeSample } from '../samples.ts';

describeSample({
  app: 'bun',
  says: /-----> Bun app detected[^]*bun 1\.\d+\.\d+[^]*Installing dependencies with bun[^]*Removing development dependencies/,
  saves: /Taking packages that were downloaded before from the cache/,
  answers: /^Hello from Bun 1\.\d+\.\d+: built 1\.2\.3, with its packages$/m,
  runtimes: 3,
  stops: 0,
});
