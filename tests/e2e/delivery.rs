//! What the strategies of delivery do on a real API server.
