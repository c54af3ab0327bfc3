/** What each language's own files ask for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { baseOf, checkGoVersion, parseGoMod, webBinary } from './go/modules.ts';
import { chooseJava, javaWish } from './java/versions.ts';
import { checkPhp, extensionPackages, parseComposerJson, satisfiesComposer } from './php/composer-json.ts';
import { checkGemfileRuby, hasGem, rubyOfGemfile, rubyOfLock } from './ruby/gemfile.ts';

test('go.mod tells the module and its Go, and a newer one than there is is refused', () => {
  assert.deepEqual(parseGoMod('// x\nmodule example.com/a/v2\n\ngo 1.22.3\n'), {
    path: 'example.com/a/v2',
    goVersion: '1.22.3',
  });
  assert.throws(() => parseGoMod('go 1.22'), { code: 'invalid' });
  checkGoVersion({ version: '1.24', file: 'go.mod' }, '1.24.4', '1.24');
  assert.throws(() => checkGoVersion({ version: '1.25', file: 'go.mod' }, '1.24.4', '1.24'), {
    code: 'invalid',
    message: /go\.mod asks for Go 1\.25, and there is 1\.24/,
  });
});

test('the web process of Go is the only program, or the one called like the module', () => {
  assert.equal(webBinary(['a'], 'example.com/x'), 'bin/a');
  assert.equal(webBinary(['a', 'x'], 'example.com/x/v3'), 'bin/x');
  assert.equal(webBinary(['a', 'server'], 'example.com/x'), 'bin/server');
  assert.equal(webBinary(['a', 'b'], 'example.com/x'), undefined);
  for (const version of ['v2', 'v10']) assert.equal(baseOf(`example.com/tool/${version}`), 'tool');
  for (const name of ['v0', 'v1', 'v01']) assert.equal(baseOf(`example.com/tool/${name}`), name);
});

const rubies: [string, string | undefined][] = [
  ['ruby "3.3.1"', '3.3.1'],
  ["  ruby '~> 3.3', '< 4'", '~> 3.3, < 4'],
  ["ruby('3.3.1', engine: 'ruby')", '3.3.1'],
  ['ruby file: ".ruby-version"', '.ruby-version'],
  ['gem "rails"', undefined],
];
for (const [text, expected] of rubies) {
  test(`a Gemfile with ${text} asks for ${expected ?? 'no Ruby'}`, () => assert.equal(rubyOfGemfile(text), expected));
}

test('a Gemfile that asks for another Ruby is told which there is', () => {
  for (const fine of ['3.3.13', '~> 3.3', '~> 3.3.0', '>= 3.1, < 3.5', '.ruby-version'])
    checkGemfileRuby(fine, '3.3.13');
  for (const wrong of ['3.3.1', '~> 3.2.0', '>= 3.4']) {
    assert.throws(() => checkGemfileRuby(wrong, '3.3.13'), {
      code: 'invalid',
      message: /there is 3\.3\.13.*~> 3\.3\.0/,
    });
  }
});

test('a Gemfile.lock tells its Ruby and its gems', () => {
  const lock = 'GEM\n  specs:\n    rake (13.0)\n      x (1)\n\nRUBY VERSION\n   ruby 3.3.1p55\n';
  assert.deepEqual(rubyOfLock(lock), { version: '3.3.1', file: 'Gemfile.lock' });
  assert.equal(hasGem(lock, 'rake'), true);
  assert.equal(hasGem(lock, 'x'), false);
});

const constraints: [string, boolean][] = [
  ['^8.2', true],
  ['>=8.1 <8.5', true],
  ['>=8.1,<8.4', false],
  ['~8.2', true],
  ['~8.2.0', false],
  ['^7.4|^8.0', true],
  ['^7.4 || ^8.0@dev', true],
  ['8.4.*', true],
  ['^9', false],
];
for (const [constraint, isFine] of constraints) {
  test(`PHP 8.4.28 ${isFine ? 'satisfies' : 'does not satisfy'} ${constraint}`, () => {
    assert.equal(satisfiesComposer('8.4.28', constraint), isFine);
  });
}

test('composer.json tells PHP, extensions and the docroot', () => {
  const text = JSON.stringify({
    require: { php: '^8', 'ext-PDO_mysql': '*', a: '1' },
    extra: { flynn: { docroot: 'web' } },
  });
  assert.deepEqual(parseComposerJson(text), { php: '^8', extensions: ['pdo_mysql'], docroot: 'web' });
  assert.deepEqual(parseComposerJson('{"require": []}'), { php: undefined, extensions: [], docroot: undefined });
  assert.throws(() => parseComposerJson('[]'), { code: 'invalid' });
  assert.throws(() => checkPhp('^7', '8.4.28'), { code: 'invalid', message: /php "\^7", and there is 8\.4\.28/ });
  assert.deepEqual(extensionPackages('8.4', ['pdo_mysql', 'imagick', 'json'], ['mysql', 'imagick', 'xml']), [
    'php8.4-imagick',
    'php8.4-mysql',
    'php8.4-xml',
  ]);
});

test('Java is what system.properties or the pom ask for, or the next newer one', () => {
  assert.deepEqual(javaWish({ systemProperties: 'java.runtime.version = 17.0.9\n' }), {
    version: '17',
    file: 'system.properties',
  });
  assert.deepEqual(javaWish({ pom: '<java.version>1.8</java.version>' }), { version: '8', file: 'pom.xml' });
  assert.equal(javaWish({ pom: '<project/>' }), undefined);
  const commented = '<!-- <java.version>11</java.version> --><java.version>25</java.version>';
  assert.equal(javaWish({ pom: commented })?.version, '25');
  const named = '<jdk>21</jdk><maven.compiler.release>${jdk}</maven.compiler.release>';
  assert.equal(javaWish({ pom: named })?.version, '21');
  const endless =
    '<a>${b}</a><b>${a}</b><java.version>${a}</java.version><maven.compiler.target>17</maven.compiler.target>';
  assert.equal(javaWish({ pom: endless })?.version, '17');
  const compiler = '<artifactId>maven-compiler-plugin</artifactId><configuration><release>25</release></configuration>';
  assert.equal(javaWish({ pom: `<plugin><release>8</release></plugin><plugin>${compiler}</plugin>` })?.version, '25');
  assert.equal(chooseJava({ version: '17', file: 'f' }, ['21', '25']), '21');
  assert.equal(chooseJava({ version: '22', file: 'f' }, ['21', '25']), '25');
  assert.equal(chooseJava(undefined, ['25', '21']), '21');
  assert.throws(() => chooseJava({ version: '26', file: 'pom.xml' }, ['21', '25']), {
    message: /Java 26, and there is 21, 25/,
  });
  assert.throws(() => javaWish({ systemProperties: 'java.runtime.version=new' }), { code: 'invalid' });
});
