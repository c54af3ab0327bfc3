import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseManifest } from './manifest.ts';

test('a Cargo.toml tells its main program, its oldest Rust, and whether Rocket is told where to listen', () => {
  assert.deepEqual(parseManifest('[package]\nname = "shop"\nrust-version = "1.80"\n[dependencies]\nrocket = "0.5"\n'), {
    main: 'shop',
    wish: { version: '1.80', file: 'Cargo.toml' },
    isRocket: true,
  });
  const inherits = '[package]\nname = "shop"\ndefault-run = "web"\nrust-version.workspace = true\n';
  assert.deepEqual(parseManifest(`${inherits}[workspace.package]\nrust-version = "1.90"\n`), {
    main: 'web',
    wish: { version: '1.90', file: 'Cargo.toml' },
    isRocket: false,
  });
  assert.deepEqual(parseManifest('[workspace]\nmembers = ["a"]\n'), {
    main: undefined,
    wish: undefined,
    isRocket: false,
  });
  assert.throws(() => parseManifest('[package'), { code: 'invalid', message: /^Cargo\.toml is not usable/ });
});
