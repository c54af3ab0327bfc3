import { describeSample } from '../samples.ts';

describeSample({
  app: 'deno',
  says: /-----> Deno app detected[^]*Deno 2\.\d+\.\d+[^]*Installing dependencies with deno[^]*Running build/,
  saves: /Taking what was fetched before from the cache/,
  answers: /^Hello from Deno 2\.\d+\.\d+: built 1\.2\.3, with its packages$/m,
  runtimes: 1,
  stops: 0,
});
