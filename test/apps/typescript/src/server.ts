import { createServer } from 'node:http';

const greeting: string = process.env['GREETING'] ?? 'Hello from TypeScript';
const server = createServer((_request, response) => {
  response.setHeader('content-type', 'text/plain');
  response.end(`${greeting}\n`);
});
server.listen(Number(process.env['PORT'] ?? 8080), () => console.log('listening'));
process.on('SIGTERM', () => server.close(() => process.exit(0)));
