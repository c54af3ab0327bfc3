import { describeSample } from '../samples.ts';

describeSample({
  app: 'elixir',
  says: /-----> Elixir app detected[^]*Elixir 1\.\d+\.\d+: the one there is[^]*Generated hello app[^]*types for Elixir -> web/,
  answers: /^Hello from Elixir 1\.\d+\.\d+ \(prod\)/,
  runtimes: 1,
  stops: 0,
});
