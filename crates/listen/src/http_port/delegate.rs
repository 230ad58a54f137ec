//! Methods of connection wrappers that only call the same method of the wrapped connection.

/// Implements the named methods of `AsyncRead` or `AsyncWrite` by those of a field.
macro_rules! delegate {
    ($field:ident: $($method:ident),+) => {
        $(delegate!(@$method $field);)+
    };
    (@poll_read $field:ident) => {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.$field).poll_read(context, buffer)
        }
    };
    (@poll_write $field:ident) => {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.$field).poll_write(context, bytes)
        }
    };
    (@poll_write_vectored $field:ident) => {
        fn poll_write_vectored(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            parts: &[std::io::IoSlice<'_>],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.$field).poll_write_vectored(context, parts)
        }
    };
    (@is_write_vectored $field:ident) => {
        fn is_write_vectored(&self) -> bool {
            self.$field.is_write_vectored()
        }
    };
    (@$poll_end:ident $field:ident) => {
        fn $poll_end(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.$field).$poll_end(context)
        }
    };
}

pub(super) use delegate;
