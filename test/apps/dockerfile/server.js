// What the image was built with is what it answers; the port is the one its Dockerfile exposes.
const { readFileSync } = require('node:fs');
const { createServer } = require('node:http');

const greeting = readFileSync('greeting', 'utf8');
const server = createServer((request, response) => response.end(greeting)).listen(3000);
process.once('SIGTERM', () => server.close());
