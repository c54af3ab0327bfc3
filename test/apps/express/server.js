const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const express = require('express');
const { WebSocketServer } = require('ws');

const instance = process.env.FLYNN_JOB_ID || require('node:os').hostname();
const app = express();

app.get('/', (request, response) => {
  const greeting = process.env.GREETING || 'Hello from Flynn';
  response.type('text').send(`${greeting}\ninstance ${instance}\nrelease ${process.env.FLYNN_RELEASE_ID || '-'}\n`);
});

app.get('/env', (request, response) => response.json(process.env));

app.get('/headers', (request, response) => response.json(request.headers));

app.get('/slow', async (request, response) => {
  await sleep(Math.min(Number(request.query.ms) || 1000, 60_000));
  response.type('text').send(`slow ${instance}\n`);
});

app.get('/exit', (request, response) => {
  response.on('finish', () => process.exit(Number(request.query.code) || 1));
  response.type('text').send('bye\n');
});

const server = http.createServer(app);
const sockets = new WebSocketServer({ server, path: '/ws' });
sockets.on('connection', (socket) => {
  socket.send(`hello from ${instance}`);
  socket.on('message', (message) => socket.send(String(message)));
});

const port = Number(process.env.PORT) || 8080;
server.listen(port, () => console.log(`listening on ${port}`));

process.on('SIGTERM', () => {
  console.log('SIGTERM: finishing what is under way');
  for (const socket of sockets.clients) socket.close(1001);
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
