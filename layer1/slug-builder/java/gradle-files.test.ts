import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkGradle, gradleOf, isOfMicronaut, javaOfGradle, modulesOf, taskOf } from './gradle-files.ts';

const of = (...texts: string[]) =>
  texts.map((text, at) => ({ file: at === 0 ? 'build.gradle' : `m${at}/build.gradle.kts`, text }));

const tasks: [string, string][] = [
  ["task stage(dependsOn: ['installDist'])", 'stage'],
  ['tasks.register("stage") {', 'stage'],
  ["tasks.register('stage', Copy)", 'stage'],
  ['val stage by tasks.registering', 'stage'],
  ['// task stage\ntask staged {}', 'build -x check'],
  ["plugins {\n  id 'org.springframework.boot' version '3.4.1'\n  id 'application'\n}", 'build -x check'],
  ['plugins { alias(libs.plugins.spring.boot) }', 'build -x check'],
  ["plugins { id 'io.quarkus' }", 'build -x check'],
  ['plugins {\n    application\n    id("com.gradleup.shadow") version "9.0.0"\n}', 'shadowJar'],
  ['plugins {\n  kotlin("jvm") version "2.1.0"\n  application\n}', 'installDist'],
  ["apply plugin: 'application'", 'installDist'],
  ['plugins {\n  alias(ktorLibs.plugins.ktor)\n}', 'installDist'],
  ['plugins { id("io.micronaut.application") version "4.4.4" }', 'installDist'],
  ['/* plugins {\n  application\n} */\nplugins {\n  java\n}', 'build -x check'],
  ['sources { include("**/*.java") }\nplugins {\n  application\n}\n// **/', 'installDist'],
  ['', 'build -x check'],
];
for (const [text, expected] of tasks) {
  test(`what is run of ${JSON.stringify(text)} is ${expected}`, () => assert.equal(taskOf(of(text)), expected));
}

test('a module says as much as the top does', () => {
  assert.equal(taskOf(of('', 'plugins {\n  application\n}')), 'installDist');
  assert.equal(isOfMicronaut(of('', 'plugins { id("io.micronaut.application") }')), true);
  assert.equal(isOfMicronaut(of('// io.micronaut')), false);
});

test('settings name the modules, by folders within the app', () => {
  const settings = `rootProject.name = "shop"
include("app", ":lib:core")
include 'jobs',
        'tools'
// include("old")
includeBuild("build-logic")
include(":..:other", "/etc")`;
  assert.deepEqual(modulesOf(settings), ['app', 'lib/core', 'jobs', 'tools']);
});

const javas: [string, string | undefined, boolean][] = [
  ['java { toolchain { languageVersion = JavaLanguageVersion.of(21) } }\nsourceCompatibility = 25', '21', true],
  ['kotlin { jvmToolchain(25) }', '25', true],
  ["sourceCompatibility = '17'", '17', false],
  ['sourceCompatibility = JavaVersion.VERSION_1_8', '8', false],
  ['sourceCompatibility = 1.8\ntargetCompatibility = 21', '21', false],
  ['targetCompatibility = JavaVersion.toVersion("21")', '21', false],
  ['options.release.set(21)', '21', false],
  ['options.release = 25', '25', false],
  ['compilerOptions { jvmTarget = JvmTarget.JVM_21 }', '21', false],
  ['sourceCompatibility = javaVersion', undefined, false],
];
for (const [text, version, isExact] of javas) {
  test(`the Java of ${text} is ${version ?? 'not told'}`, () =>
    assert.deepEqual(
      javaOfGradle(of(text)),
      version === undefined ? undefined : { version, file: 'build.gradle', isExact },
    ));
}

test('of several modules the newest Java counts', () => {
  assert.deepEqual(javaOfGradle(of('jvmToolchain(21)', 'jvmToolchain(25)'))?.file, 'm1/build.gradle.kts');
});

test('a Gradle that does not run on this Java is told before it fails', () => {
  const url = (name: string): string =>
    `distributionBase=GRADLE_USER_HOME\ndistributionUrl=https\\://services.gradle.org/distributions/${name}.zip\n`;
  assert.equal(gradleOf(url('gradle-8.14.3-bin')), '8.14.3');
  assert.equal(gradleOf(url('gradle-9.1.0-rc-1-all')), '9.1.0');
  assert.equal(gradleOf('distributionUrl=https\\://corp.example/ours.zip\n'), undefined);
  for (const [gradle, java] of [
    ['8.5', '21'],
    ['8.14.3', '21'],
    ['9.1.0', '25'],
    ['7.6', '17'],
    [undefined, '25'],
  ] as const)
    checkGradle(gradle, java);
  assert.throws(() => checkGradle('8.4', '21'), {
    code: 'invalid',
    message: /Gradle 8\.4, which does not run on Java 21: 8\.5 is.*--gradle-version 8\.5/,
  });
  assert.throws(() => checkGradle('8.14.3', '25'), { code: 'invalid', message: /--gradle-version 9\.1/ });
});
