// A web app is a program that answers HTTP on the port it is told.
import { createServer } from 'node:http';

const port = Number(process.env.PORT ?? 8080);
const greeting = process.env.GREETING ?? 'Hello from Flynn';

const server = createServer((request, response) => {
  response.setHeader('content-type', 'text/plain; charset=utf-8');
  response.end(`${greeting}\n`);
  console.log(`${request.method} ${request.url}`);
});

server.listen(port, () => console.log(`listening on ${port}`));

// Told to stop: answer what is under way, take nothing new.
process.on('SIGTERM', () => server.close(() => process.exit(0)));
