import { describeSample } from '../samples.ts';

describeSample({
  app: 'rust',
  says: /-----> Rust app detected[^]*Cargo\.toml says 1\.85: Rust 1\.\d+[^]*Compiling greeting[^]*Default types for Rust -> web/,
  // What the repository does not have itself is compiled once, the app by each build.
  saves: /^(?![^]*Compiling greeting)[^]*Compiling hello/,
  answers: /^Hello from hello/,
  runtimes: 0,
  stops: 143,
});
