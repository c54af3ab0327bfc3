import { frontConformance } from '../front-conformance.ts';

frontConformance('http-proxy');
