import semver from 'npm:semver@^7.0.0';

await Deno.writeTextFile('built.txt', semver.valid('1.2.3') ?? '');
