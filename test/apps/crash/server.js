console.log('reading the configuration');
console.error('DATABASE_URL is not set: cannot start');
process.exitCode = 3;
