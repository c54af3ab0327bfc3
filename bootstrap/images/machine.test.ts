import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { builderEnvOf } from '../platform/builder-env.ts';
import { foldersOf } from './archive.ts';
import { changesOf, installCommand, variablesText } from './build.ts';
import { aptOptionsOf, aptSourcesOf } from './machine.ts';

test('of apt’s options those on connections are taken, and nothing that names files of the machine', () => {
  const dump = [
    'APT::Architecture "amd64";',
    'Acquire::http::Proxy "http://proxy.example:3128";',
    'Acquire::https::Proxy "http://proxy.example:3128";',
    'Acquire::https::CaInfo "/etc/ssl/own.pem";',
    'Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";',
    'Acquire::http "";',
    'Acquire::Check-Valid-Until "false";',
    'DPkg::Post-Invoke:: "/usr/bin/something";',
  ].join('\n');
  assert.deepEqual(aptOptionsOf(dump), [
    'Acquire::http::Proxy "http://proxy.example:3128";',
    'Acquire::https::Proxy "http://proxy.example:3128";',
    'Acquire::Check-Valid-Until "false";',
  ]);
});

test('a Debian machine’s mirrors are used for the suite of the images', () => {
  const targets = [
    'Debian|Debian-Security|http://mirror.example/debian-security/',
    'Docker|Docker CE|https://docker.example/debian/',
    'Debian|Debian|http://mirror.example/debian/',
    'Debian|Debian|http://second.example/debian/',
  ].join('\n');
  assert.deepEqual(aptSourcesOf(targets, 'trixie'), [
    'deb http://mirror.example/debian/ trixie main',
    'deb http://mirror.example/debian/ trixie-updates main',
    'deb http://mirror.example/debian-security/ trixie-security main',
  ]);
});

test('other systems’ mirrors, and mirrors on disks, are not Debian’s', () => {
  assert.deepEqual(
    aptSourcesOf('Ubuntu|Ubuntu|http://ubuntu.example/ubuntu/\nDebian|Debian|file:/srv/debian/', 'trixie'),
    [],
  );
  assert.deepEqual(aptSourcesOf('', 'trixie'), []);
});

test('a command that installs packages, which an image’s history has, says nothing of the machine', () => {
  const command = installCommand(['git', 'curl'], undefined);
  assert.deepEqual(command.slice(-3), ['install', 'git', 'curl']);
  const proxy = "http://u:it's $HOME@proxy.example:3128";
  const text = variablesText({ proxies: { http_proxy: proxy } });
  assert.equal(execFileSync('sh', ['-c', `${text}printf %s "$http_proxy"`], { encoding: 'utf8' }), proxy);
});

test('an image says everything about how it runs, so that nothing of its build is left', () => {
  assert.equal(
    changesOf({ command: ['a b'], env: { X: 'say "hi"' } }),
    ['LABEL flynn.image=1', 'ENTRYPOINT []', 'CMD ["a b"]', 'WORKDIR /', 'ENV X="say \\"hi\\""'].join('\n'),
  );
});

test('only folders of the platform’s own are written, each after its parent', () => {
  assert.deepEqual(foldersOf([{ path: '/usr/lib/flynn/node_modules/etcd3/lib/x.js' }, { path: '/usr/bin/node' }]), [
    'usr/lib/flynn',
    'usr/lib/flynn/node_modules',
    'usr/lib/flynn/node_modules/etcd3',
    'usr/lib/flynn/node_modules/etcd3/lib',
  ]);
});

test('builds use the machine’s npm registry and proxies', () => {
  assert.deepEqual(builderEnvOf({ npmRegistry: 'https://npm.example/', proxies: { https_proxy: 'http://p:1' } }), {
    NPM_CONFIG_REGISTRY: 'https://npm.example/',
    https_proxy: 'http://p:1',
  });
  assert.deepEqual(builderEnvOf({ proxies: {} }), {});
});
