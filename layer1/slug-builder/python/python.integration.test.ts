import { describeSample } from '../samples.ts';

describeSample({
  app: 'python',
  says: /-----> Python app detected[^]*\.python-version says 3\.13: python 3\.13\.\d+[^]*Successfully installed greeting-1\.0/,
  saves: /Restoring the virtual environment/,
  answers: /^Hello from Python 3\.13, SQLite 3\./,
  runtimes: 1,
  stops: 0,
});
