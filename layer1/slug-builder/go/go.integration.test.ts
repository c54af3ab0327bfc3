import { describeSample } from '../samples.ts';

describeSample({
  app: 'go',
  says: /-----> Go app detected[^]*go\.mod says 1\.22: Go 1\.\d+/,
  answers: /^Hello from go1\./,
  runtimes: 0,
});
